"""What commands share to talk to a person in a terminal."""
