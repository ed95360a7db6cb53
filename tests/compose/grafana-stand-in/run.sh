#!/bin/sh
exec python -u /server.py
