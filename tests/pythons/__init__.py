"""What differs between the Pythons that handrail supports. `make pythons` runs this on each that the machine has."""
