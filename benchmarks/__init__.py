"""What claims about speed are measured with."""
