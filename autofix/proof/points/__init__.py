"""What a patch must show: one module for each point of the certificate, each pure: records in, verdict out."""
