"""The learned scheduler: implicit Q-learning over counterfactual transitions."""
