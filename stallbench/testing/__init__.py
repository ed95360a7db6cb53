"""The pytest plugin: runs and conformance as tests of a user's project. pytest loads `plugin`; the rest is loaded when a test uses the fixture."""
