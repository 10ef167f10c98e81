"""Memory actions: packed panels, epilogues on local tiles, prefetches, non-temporal stores."""
