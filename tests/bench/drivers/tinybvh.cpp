// Drives tinybvh's BVH8_CPU, from the header in a folder that the user names. Only for measuring.
#define TINYBVH_IMPLEMENTATION
#include "tiny_bvh.h"

#include "timing.h"

namespace {
struct Scene {
    tinybvh::BVH8_CPU tree;
    tinybvh::BVH binary;  // refits; the wide layouts do not all do
    std::vector<tinybvh::bvhvec4> corners;
};
}  // namespace

extern "C" {
// `seconds`: wall and CPU of the process for the build alone, not for gathering corners.
void* tinybvh_build(const float* vertices, const uint32_t* indices, int64_t triangle_count, int with_binary,
                    double* seconds, int64_t* bytes) {
    Scene* scene = new Scene;
    scene->corners.resize(size_t(triangle_count) * 3);
    for (int64_t i = 0; i < triangle_count * 3; i++) {
        const float* p = vertices + 3 * int64_t(indices[i]);
        scene->corners[size_t(i)] = tinybvh::bvhvec4(p[0], p[1], p[2], 0);
    }
    Stopwatch watch(CLOCK_PROCESS_CPUTIME_ID);
    scene->tree.Build(scene->corners.data(), unsigned(triangle_count));
    watch.stop(seconds);
    if (with_binary) scene->binary.Build(scene->corners.data(), unsigned(triangle_count));
    bytes[0] = bytes[1] = int64_t(scene->tree.usedBlocks) * 64;
    return scene;
}

void tinybvh_refit(void* handle, double* seconds) {
    Stopwatch watch(CLOCK_PROCESS_CPUTIME_ID);
    static_cast<Scene*>(handle)->binary.Refit();
    watch.stop(seconds);
}

void tinybvh_trace(void* handle, const float* origin, const float* direction, const float* t_max, int64_t count,
                   int occlusion, int threads, float* t, int32_t* primitive, double* seconds) {
    tinybvh::BVH8_CPU& tree = static_cast<Scene*>(handle)->tree;
    run_chunks(count, threads, seconds, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i++) {
            const float *o = origin + 3 * i, *d = direction + 3 * i;
            float end = t_max[i] < 1e30f ? t_max[i] : 1e30f;
            tinybvh::Ray ray(tinybvh::bvhvec3(o[0], o[1], o[2]), tinybvh::bvhvec3(d[0], d[1], d[2]), end);
            if (occlusion) {
                primitive[i] = tree.IsOccluded(ray);
                continue;
            }
            tree.Intersect(ray);
            t[i] = ray.hit.t;
            primitive[i] = ray.hit.t < end ? int32_t(ray.hit.prim) : -1;
        }
    });
}

void tinybvh_release(void* handle) { delete static_cast<Scene*>(handle); }
}
