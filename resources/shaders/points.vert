#version 330 core
// Round marks of a size in pixels.
layout(location = 0) in vec3 position;
layout(location = 1) in vec4 tint;
layout(location = 2) in float size;
uniform mat4 world_to_clip;
uniform vec2 viewport;
uniform float pixel_ratio;
flat out vec4 colour;
out vec2 local;

void main() {
    const vec2 corners[6] = vec2[6](vec2(-1,-1), vec2(1,-1), vec2(-1,1), vec2(-1,1), vec2(1,-1), vec2(1,1));
    local = corners[gl_VertexID];
    vec4 centre = world_to_clip * vec4(position, 1.0);
    gl_Position = centre + vec4(local * size * pixel_ratio / viewport * centre.w, -3e-5 * centre.w, 0.0);
    colour = tint;
}
