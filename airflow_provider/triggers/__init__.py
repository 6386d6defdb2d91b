"""Triggers: waiting that holds no worker."""
