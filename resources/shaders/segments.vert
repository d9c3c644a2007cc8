#version 330 core
// Line segments of a width in pixels: two triangles each, because core profiles promise only lines of width 1.
layout(location = 0) in vec3 from;
layout(location = 1) in vec3 to;
layout(location = 2) in vec4 tint;
layout(location = 3) in float width;
uniform mat4 world_to_clip;
uniform vec2 viewport;                // device pixels
uniform float pixel_ratio;
uniform float depth_offset;
flat out vec4 colour;

void main() {
    vec4 a = world_to_clip * vec4(from, 1.0);
    vec4 b = world_to_clip * vec4(to, 1.0);
    const float nearest = 1e-5;       // cut what lies behind the eye, else the division turns it around
    if (a.w < nearest && b.w < nearest) { gl_Position = vec4(2.0, 2.0, 2.0, 1.0); colour = tint; return; }
    if (a.w < nearest) a = mix(a, b, (nearest - a.w) / (b.w - a.w));
    if (b.w < nearest) b = mix(b, a, (nearest - b.w) / (a.w - b.w));
    vec2 along = (b.xy / b.w - a.xy / a.w) * viewport;
    along = length(along) > 1e-6 ? normalize(along) : vec2(1.0, 0.0);
    vec2 across = vec2(-along.y, along.x);
    const int corners[6] = int[6](0, 1, 2, 2, 1, 3);
    int corner = corners[gl_VertexID];
    vec4 end = (corner & 2) == 0 ? a : b;
    float side = (corner & 1) == 0 ? -1.0 : 1.0;
    float cap = (corner & 2) == 0 ? -0.5 : 0.5;
    vec2 offset = (across * side + along * cap) * width * pixel_ratio / viewport;
    gl_Position = end + vec4(offset * end.w, -depth_offset * end.w, 0.0);
    colour = tint;
}
