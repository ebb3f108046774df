"""One file per wire: how its service hears a request, and how it writes a reply. None of it uses our codecs."""
