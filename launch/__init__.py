"""Running on machines that are not this one: accelerators and clusters."""
