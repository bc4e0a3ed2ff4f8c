"""The tape itself, by autograd's own rules: nodes, leaves, versions, and the tensors that each operation saves."""
