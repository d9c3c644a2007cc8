#version 330 core
flat in vec4 colour;
in vec2 local;
uniform vec4 rim;
out vec4 fragment;

void main() {
    float radius = length(local);
    if (radius > 1.0) discard;
    fragment = radius > 0.72 ? rim : colour;
}
