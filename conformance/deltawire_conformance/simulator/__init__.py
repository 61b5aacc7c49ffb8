"""The suite's own S3: a server on loopback that notes every request and goes wrong when a case says so.

It speaks what SPEC.md section 5.4 needs of S3, keeps the guarantees of section 5.2, and checks no signatures.
"""
