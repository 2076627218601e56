"""The parameter server: versioned weights, the ledger of samples, and a small HTTP service. It runs no user code."""
