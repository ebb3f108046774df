"""`handrail doctor`: checks of the installation, the configuration and the node."""
