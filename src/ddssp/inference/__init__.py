"""From measurements to consistent statistics: pair marginals or moments."""
