"""A patch at run time: numpy and onnxruntime, no torch; what runs on the robot's own computer."""
