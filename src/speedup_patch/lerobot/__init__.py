"""LeRobot's policies made faster: a wrapper for its evaluation, a policy type for its commands, a policy server."""
