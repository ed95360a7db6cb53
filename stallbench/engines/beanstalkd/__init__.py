"""Beanstalkd."""
