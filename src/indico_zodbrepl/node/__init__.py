"""What happens on one host: state files, supervised programs, their start and end."""
