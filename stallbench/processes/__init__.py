"""The processes of a run: started, supervised, reaped; and what each role does at its start and end."""
