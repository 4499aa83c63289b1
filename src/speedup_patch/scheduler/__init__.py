"""The learned scheduler: implicit Q-learning over counterfactual transitions, one rate per chunk."""
