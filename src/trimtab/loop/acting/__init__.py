"""Acting on a site: what is observed, decided, shown, carried out, journalled and taken back."""
