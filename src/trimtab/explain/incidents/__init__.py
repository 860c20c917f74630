"""From judged series, surveys and runs to incidents: one per trouble, but no causes."""
