"""The world a user loads: meshes, boxes, instances, materials, cameras. Knows no file format and no structure."""
