"""The run witness: what a run recorded, as sites, chains and facts of the source."""
