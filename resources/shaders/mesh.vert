#version 330 core
// A triangle soup of one bottom level, drawn once per instance.
layout(location = 0) in vec3 position;
layout(location = 1) in vec4 row_x;   // object to world, one row per attribute
layout(location = 2) in vec4 row_y;
layout(location = 3) in vec4 row_z;
layout(location = 4) in vec3 tint;
layout(location = 5) in float surface;   // number of the geometry, wrapped
uniform vec3 surface_tints[64];
uniform mat4 world_to_view;
uniform mat4 view_to_clip;
out vec3 in_view;
out vec3 edge;
flat out vec3 colour;

void main() {
    vec4 point = vec4(position, 1.0);
    vec4 world = vec4(dot(row_x, point), dot(row_y, point), dot(row_z, point), 1.0);
    vec4 view = world_to_view * world;
    in_view = view.xyz;
    int corner = gl_VertexID % 3;
    edge = vec3(corner == 0, corner == 1, corner == 2);
    colour = tint * surface_tints[int(surface + 0.5)];
    gl_Position = view_to_clip * view;
}
