"""From what a run left to its score file: artifacts reads it, metrics/ measures, layout and files write it down."""
