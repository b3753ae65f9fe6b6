"""Files: models, ONNX graphs, archives."""
