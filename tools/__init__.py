"""Tools that only this repository needs: generators of its pages."""
