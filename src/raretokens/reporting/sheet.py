"""stub"""

from raretokens.sections import Section


class Sheet(Section):
    scale: str

    @classmethod
    def of(cls, parameters):
        return cls(scale=parameters.scale)
