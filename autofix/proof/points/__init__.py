"""The points of the proof: one module for each point of the certificate, each pure: records in, verdict out."""
