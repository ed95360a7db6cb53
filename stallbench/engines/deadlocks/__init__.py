"""InnoDB's deadlock reports: parsed, grouped, drawn."""
