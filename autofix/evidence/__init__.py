"""The run witness: the record of a run, as sites, chains and facts of the source."""
