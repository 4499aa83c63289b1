"""World models: what the robot's own body does when actions are sent."""
