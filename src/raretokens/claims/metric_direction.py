"""Whether a higher or a lower value of a metric is better, as far as its name says so."""

from typing import Literal

Better = Literal["higher", "lower", "unknown"]

# Names of lm-evaluation-harness, Inspect and this project, as the last part of a metric or its last word.
HIGHER = {
    "acc", "acc_bytes", "acc_mutual_info", "acc_norm", "accuracy", "alignsim", "auc", "auroc", "bertscore", "bleu",
    "choice", "chrf", "comet", "correct", "em", "exact", "f1", "includes", "isotropy", "match", "mc1", "mc2", "mcc",
    "meteor", "model_graded_fact", "model_graded_qa", "mrr", "ndcg", "pass", "pass@1", "precision", "recall",
    "reward", "rouge", "rouge1", "rouge2", "rougel", "rougelsum", "sacrebleu", "spearman", "uniq",
}  # fmt: skip
LOWER = {
    "bits_per_byte", "brier", "brier_score", "cer", "cross_entropy", "ece", "error", "error_rate", "loss", "mae",
    "mse", "nll", "perplexity", "ppl", "rmse", "ter", "wer",
}  # fmt: skip
GROUPS = ("total", "freq", "med", "rare")  # of the types of this project; the last part of a metric such as ppl.rare


def better(metric: str) -> Better:
    """Return which values of a metric are better, such as `lower` for `wikitext.word_perplexity`."""
    parts = metric.lower().split(".")
    name = parts[-2] if parts[-1] in GROUPS and len(parts) > 1 else parts[-1]
    for one in (name, name.rpartition("_")[2]):
        if one in HIGHER or one in LOWER:
            return "higher" if one in HIGHER else "lower"
    return "unknown"
