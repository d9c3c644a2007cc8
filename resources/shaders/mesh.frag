#version 330 core
// Flat shading from screen derivatives, so that no normals are stored; a light beside the eye.
in vec3 in_view;
in vec3 edge;
flat in vec3 colour;
uniform bool fill;
uniform bool wire;
uniform vec4 wire_colour;
uniform float pixel_ratio;
out vec4 fragment;

void main() {
    vec3 normal = normalize(cross(dFdx(in_view), dFdy(in_view)));
    float light = 0.45 + 0.45 * abs(dot(normal, normalize(vec3(0.35, 0.55, 0.85)))) + 0.10 * abs(normal.z);
    vec3 shaded = colour * light;
    float line = 0.0;
    if (wire) {
        vec3 width = fwidth(edge) * pixel_ratio;
        vec3 near = smoothstep(width * 0.3, width * 0.95, edge);
        line = 1.0 - min(near.x, min(near.y, near.z));
    }
    if (!fill && line < 0.35) discard;
    fragment = fill ? vec4(mix(shaded, wire_colour.rgb, line * wire_colour.a), 1.0) : vec4(wire_colour.rgb, 1.0);
}
