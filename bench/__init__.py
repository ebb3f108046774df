"""What handrail costs, as ratios in one run. Absolute times say more about the machine than about us."""
