"""GPUs: from plans to kernels that are proved, built, launched and reported."""
