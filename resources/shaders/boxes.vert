#version 330 core
// Wire boxes: 24 line ends per box from gl_VertexID, one box per instance.
layout(location = 0) in vec4 row_x;   // object to world, one row per attribute
layout(location = 1) in vec4 row_y;
layout(location = 2) in vec4 row_z;
layout(location = 3) in vec3 low;
layout(location = 4) in vec3 high;
layout(location = 5) in float code;   // index into the colour table
uniform mat4 world_to_clip;
uniform vec4 colours[64];
flat out vec4 colour;

const int ends[24] = int[24](0,1, 2,3, 4,5, 6,7,  0,2, 1,3, 4,6, 5,7,  0,4, 1,5, 2,6, 3,7);

void main() {
    int corner = ends[gl_VertexID];
    vec3 side = vec3(corner & 1, (corner >> 1) & 1, (corner >> 2) & 1);
    vec4 point = vec4(mix(low, high, side), 1.0);
    vec4 world = vec4(dot(row_x, point), dot(row_y, point), dot(row_z, point), 1.0);
    gl_Position = world_to_clip * world;
    gl_Position.z -= 1e-5 * gl_Position.w;   // edges win against the faces they lie in
    colour = colours[int(code)];
}
