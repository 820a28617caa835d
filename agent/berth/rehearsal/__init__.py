"""The main job without Kubernetes: stand-ins, and the stage on which they play."""
