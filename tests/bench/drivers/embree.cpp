// Drives Embree 4 through its C interface, without Python per ray. Only for measuring.
//
// The library itself comes with the embreex wheel, without headers, so the few declarations needed stand here. Symbols
// are found at run time: whoever loads this loads Embree first. All functions give null or false when Embree complains.
#include <sys/types.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>

#include "timing.h"

// What Embree hands to callbacks. Rays and hits are n wide: field k of lane i is word k * n + i.
struct FilterCall {
    int* valid;
    void *user, *context, *ray, *hit;
    unsigned n;
};
struct BoundsCall {
    void* user;
    unsigned primitive, time_step;
    float* bounds;
};
struct PrimitiveCall {
    int* valid;
    void* user;
    unsigned primitive;
    void *context, *ray;
    unsigned n, geometry;
};

extern "C" {
void* rtcNewDevice(const char*);
void rtcReleaseDevice(void*);
int rtcGetDeviceError(void*);
void rtcSetDeviceMemoryMonitorFunction(void*, bool (*)(void*, ssize_t, bool), void*);
void* rtcNewScene(void*);
void rtcReleaseScene(void*);
void rtcSetSceneBuildQuality(void*, int);
void rtcSetSceneFlags(void*, int);
void rtcCommitScene(void*);
void* rtcNewGeometry(void*, int);
void rtcReleaseGeometry(void*);
void rtcCommitGeometry(void*);
void rtcSetGeometryBuildQuality(void*, int);
void rtcSetSharedGeometryBuffer(void*, int, unsigned, int, const void*, size_t, size_t, size_t);
void rtcUpdateGeometryBuffer(void*, int, unsigned);
void rtcSetGeometryIntersectFilterFunction(void*, void (*)(const struct FilterCall*));
void rtcSetGeometryOccludedFilterFunction(void*, void (*)(const struct FilterCall*));
void rtcSetGeometryUserPrimitiveCount(void*, unsigned);
void rtcSetGeometryUserData(void*, void*);
void rtcSetGeometryBoundsFunction(void*, void (*)(const struct BoundsCall*), void*);
void rtcSetGeometryIntersectFunction(void*, void (*)(const struct PrimitiveCall*));
void rtcSetGeometryOccludedFunction(void*, void (*)(const struct PrimitiveCall*));
void rtcSetGeometryInstancedScene(void*, void*);
void rtcSetGeometryTransform(void*, unsigned, int, const void*);
unsigned rtcAttachGeometry(void*, void*);
void rtcIntersect1(void*, void*, void*);
void rtcOccluded1(void*, void*, void*);
void rtcIntersect16(const int*, void*, void*, void*);
void rtcOccluded16(const int*, void*, void*, void*);
}

namespace {
constexpr int TRIANGLES = 0, USER = 120, INSTANCE = 121, INDEX_BUFFER = 0, VERTEX_BUFFER = 1;
constexpr int FORMAT_UINT3 = 0x5003, FORMAT_FLOAT3 = 0x9003, FORMAT_FLOAT3X4_ROW_MAJOR = 0x9134;
constexpr int QUALITY_REFIT = 3, COHERENT = 1 << 16;
constexpr unsigned NONE = ~0u;
enum Kind { CLOSEST = 0, OCCLUDED = 1, CLOSEST_16 = 2, OCCLUDED_16 = 3 };

// One ray and its hit. The rows behind `geometry` are the instance ids; the wheel's library may write two of them.
struct alignas(16) RayHit {
    float origin[3], t_near, direction[3], time, t_far;
    unsigned mask, id, flags;
    float normal[3], u, v;
    unsigned primitive, geometry, instance[6];
};
struct alignas(64) RayHit16 {
    float origin[3][16], t_near[16], direction[3][16], time[16], t_far[16];
    unsigned mask[16], id[16], flags[16];
    float normal[3][16], u[16], v[16];
    unsigned primitive[16], geometry[16], instance[6][16];
};
struct Arguments {
    int flags, features;
    void *context, *filter, *callback;
    float minimum_width;
    int padding;
};

struct Scene {
    void *device = nullptr, *bottom = nullptr, *top = nullptr, *geometry = nullptr;
    std::atomic<int64_t> bytes{0}, peak{0};
    ~Scene() {
        if (geometry) rtcReleaseGeometry(geometry);
        if (top && top != bottom) rtcReleaseScene(top);
        if (bottom) rtcReleaseScene(bottom);
        if (device) rtcReleaseDevice(device);
    }
};

bool count_bytes(void* scene, ssize_t bytes, bool) {
    Scene* owner = static_cast<Scene*>(scene);
    int64_t now = owner->bytes += bytes;
    int64_t peak = owner->peak;
    while (now > peak && !owner->peak.compare_exchange_weak(peak, now)) {
    }
    return true;
}

void* new_scene(const Scene& scene, int quality, int flags) {
    void* made = rtcNewScene(scene.device);
    rtcSetSceneBuildQuality(made, quality);
    rtcSetSceneFlags(made, flags);
    return made;
}

void add_instances(const Scene& scene, const float* transforms, int64_t count, int quality) {
    for (int64_t i = 0; i < count; i++) {
        void* instance = rtcNewGeometry(scene.device, INSTANCE);
        rtcSetGeometryInstancedScene(instance, scene.bottom);
        rtcSetGeometryTransform(instance, 0, FORMAT_FLOAT3X4_ROW_MAJOR, transforms + 12 * i);
        rtcSetGeometryBuildQuality(instance, quality);
        rtcCommitGeometry(instance);
        rtcAttachGeometry(scene.top, instance);
        rtcReleaseGeometry(instance);
    }
}

// The cut-out of foliage: odd primitives are holes.
void ignore_odd_primitives(const FilterCall* call) {
    const unsigned* primitive = static_cast<const unsigned*>(call->hit) + 5 * call->n;
    for (unsigned lane = 0; lane < call->n; lane++)
        if (call->valid[lane] && primitive[lane] & 1) call->valid[lane] = 0;
}

// A procedural sphere stands in the middle of its box (minimum, maximum), its radius half the box's shortest side.
void box_bounds(const BoundsCall* call) {
    const float* box = static_cast<const float*>(call->user) + 6 * size_t(call->primitive);
    for (int axis = 0; axis < 3; axis++) {
        call->bounds[axis] = box[axis];
        call->bounds[4 + axis] = box[3 + axis];
    }
}

// The near root where the ray's interval holds it, else the far one: a ray may start inside. In double, as the product.
bool sphere_hit(const float* box, const float* ray, unsigned n, float& t) {
    double a = 0, b = 0, c = 0, radius = std::numeric_limits<double>::infinity();
    for (int axis = 0; axis < 3; axis++) {
        double low = box[axis], high = box[3 + axis], direction = ray[(4 + axis) * n];
        double from_centre = ray[axis * n] - 0.5 * (low + high);
        a += direction * direction;
        b += direction * from_centre;
        c += from_centre * from_centre;
        radius = high - low < radius ? high - low : radius;
    }
    radius *= 0.5;
    c -= radius * radius;
    double discriminant = b * b - a * c;
    if (!(a > 0 && discriminant >= 0)) return false;
    double root = std::sqrt(discriminant);
    float t_near = ray[3 * n], t_far = ray[8 * n];
    t = float((-b - root) / a);
    if (t >= t_near && t <= t_far) return true;
    t = float((-b + root) / a);
    return t >= t_near && t <= t_far;
}

void sphere_closest(const PrimitiveCall* call) {
    const float* box = static_cast<const float*>(call->user) + 6 * size_t(call->primitive);
    for (unsigned lane = 0, n = call->n; lane < n; lane++) {
        float* ray = static_cast<float*>(call->ray) + lane;
        float t;
        if (!call->valid[lane] || !sphere_hit(box, ray, n, t)) continue;
        ray[8 * n] = t;
        unsigned* hit = reinterpret_cast<unsigned*>(ray + 12 * n);
        hit[5 * n] = call->primitive;
        hit[6 * n] = call->geometry;
    }
}

void sphere_occluded(const PrimitiveCall* call) {
    const float* box = static_cast<const float*>(call->user) + 6 * size_t(call->primitive);
    for (unsigned lane = 0, n = call->n; lane < n; lane++) {
        float* ray = static_cast<float*>(call->ray) + lane;
        float t;
        if (call->valid[lane] && sphere_hit(box, ray, n, t)) ray[8 * n] = -std::numeric_limits<float>::infinity();
    }
}

// What to build; the caller's struct has the same fields. Pointers are null where there is nothing of a kind.
struct Inputs {
    const float* vertices;  // stays alive, with 4 readable bytes behind it
    int64_t vertex_count;
    const uint32_t* indices;
    int64_t triangle_count;
    const float* boxes;  // of procedural spheres, instead of triangles; stays alive
    int64_t box_count;
    const float* transforms;
    int64_t instance_count;
    int cut_out, quality, flags, threads;
};

void* new_triangles(void* device, const Inputs& inputs) {
    void* made = rtcNewGeometry(device, TRIANGLES);
    rtcSetSharedGeometryBuffer(made, VERTEX_BUFFER, 0, FORMAT_FLOAT3, inputs.vertices, 0, 12, size_t(inputs.vertex_count));
    rtcSetSharedGeometryBuffer(made, INDEX_BUFFER, 0, FORMAT_UINT3, inputs.indices, 0, 12, size_t(inputs.triangle_count));
    if (inputs.cut_out) {
        rtcSetGeometryIntersectFilterFunction(made, ignore_odd_primitives);
        rtcSetGeometryOccludedFilterFunction(made, ignore_odd_primitives);
    }
    return made;
}

void* new_spheres(void* device, const Inputs& inputs) {
    void* made = rtcNewGeometry(device, USER);
    rtcSetGeometryUserPrimitiveCount(made, unsigned(inputs.box_count));
    rtcSetGeometryUserData(made, const_cast<float*>(inputs.boxes));
    rtcSetGeometryBoundsFunction(made, box_bounds, nullptr);
    rtcSetGeometryIntersectFunction(made, sphere_closest);
    rtcSetGeometryOccludedFunction(made, sphere_occluded);
    return made;
}

struct Rays {
    const float *origin, *direction, *t_max;
};

void load(RayHit& ray, const Rays& rays, int64_t i) {
    for (int axis = 0; axis < 3; axis++) {
        ray.origin[axis] = rays.origin[3 * i + axis];
        ray.direction[axis] = rays.direction[3 * i + axis];
    }
    ray.t_near = ray.time = 0;
    ray.t_far = rays.t_max[i];
    ray.mask = NONE;
    ray.id = ray.flags = 0;
    ray.primitive = ray.geometry = ray.instance[0] = ray.instance[1] = NONE;
}

void load(RayHit16& packet, int* valid, const Rays& rays, int64_t first, int64_t last) {
    for (int lane = 0; lane < 16; lane++) {
        bool used = first + lane < last;
        int64_t i = used ? first + lane : last - 1;
        valid[lane] = used ? -1 : 0;
        for (int axis = 0; axis < 3; axis++) {
            packet.origin[axis][lane] = rays.origin[3 * i + axis];
            packet.direction[axis][lane] = rays.direction[3 * i + axis];
        }
        packet.t_near[lane] = packet.time[lane] = 0;
        packet.t_far[lane] = rays.t_max[i];
        packet.mask[lane] = NONE;
        packet.id[lane] = packet.flags[lane] = 0;
        packet.primitive[lane] = packet.geometry[lane] = NONE;
        packet.instance[0][lane] = packet.instance[1][lane] = NONE;
    }
}

struct Found {
    float* t;
    int32_t *primitive, *instance;
};

void trace_single(void* scene, const Rays& rays, bool occlusion, const Found& found, int64_t first, int64_t last) {
    RayHit ray;
    for (int64_t i = first; i < last; i++) {
        load(ray, rays, i);
        if (occlusion) {
            rtcOccluded1(scene, &ray, nullptr);
            found.primitive[i] = ray.t_far < 0;
            continue;
        }
        rtcIntersect1(scene, &ray, nullptr);
        found.t[i] = ray.t_far;
        found.primitive[i] = int32_t(ray.primitive);
        found.instance[i] = int32_t(ray.instance[0]);
    }
}

void trace_packets(void* scene, const Rays& rays, bool occlusion, const Found& found, int64_t first, int64_t last) {
    RayHit16 packet;
    alignas(64) int valid[16];
    Arguments arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.flags = COHERENT;
    arguments.features = -1;
    for (int64_t i = first; i < last; i += 16) {
        load(packet, valid, rays, i, last);
        int lanes = last - i < 16 ? int(last - i) : 16;
        if (occlusion) {
            rtcOccluded16(valid, scene, &packet, &arguments);
            for (int lane = 0; lane < lanes; lane++) found.primitive[i + lane] = packet.t_far[lane] < 0;
            continue;
        }
        rtcIntersect16(valid, scene, &packet, &arguments);
        for (int lane = 0; lane < lanes; lane++) {
            found.t[i + lane] = packet.t_far[lane];
            found.primitive[i + lane] = int32_t(packet.primitive[lane]);
            found.instance[i + lane] = int32_t(packet.instance[0][lane]);
        }
    }
}
}  // namespace

extern "C" {
// `seconds`: wall and CPU of the process for the commits. `bytes`: in use now, and at most; Embree's own count, without
// inputs.
void* embree_build(const Inputs* inputs, double* seconds, int64_t* bytes) {
    char configuration[64];
    snprintf(configuration, sizeof configuration, "threads=%d,set_affinity=0", inputs->threads);
    Scene* scene = new Scene;
    scene->device = rtcNewDevice(configuration);
    if (!scene->device) {
        delete scene;
        return nullptr;
    }
    rtcSetDeviceMemoryMonitorFunction(scene->device, count_bytes, scene);
    const bool many = inputs->transforms != nullptr;
    scene->bottom = new_scene(*scene, inputs->quality, inputs->flags);
    scene->top = many ? new_scene(*scene, inputs->quality, inputs->flags) : scene->bottom;
    scene->geometry = inputs->boxes ? new_spheres(scene->device, *inputs) : new_triangles(scene->device, *inputs);
    rtcSetGeometryBuildQuality(scene->geometry, inputs->quality);
    Stopwatch watch(CLOCK_PROCESS_CPUTIME_ID);
    rtcCommitGeometry(scene->geometry);
    rtcAttachGeometry(scene->bottom, scene->geometry);
    rtcCommitScene(scene->bottom);
    if (many) {
        add_instances(*scene, inputs->transforms, inputs->instance_count, inputs->quality);
        rtcCommitScene(scene->top);
    }
    watch.stop(seconds);
    bytes[0] = scene->bytes;
    bytes[1] = scene->peak;
    if (rtcGetDeviceError(scene->device) != 0) {
        delete scene;
        return nullptr;
    }
    return scene;
}

// New boxes for the same tree. Only a LOW scene refits; Embree builds others anew.
bool embree_refit(void* handle, double* seconds) {
    Scene* scene = static_cast<Scene*>(handle);
    rtcSetGeometryBuildQuality(scene->geometry, QUALITY_REFIT);
    Stopwatch watch(CLOCK_PROCESS_CPUTIME_ID);
    rtcUpdateGeometryBuffer(scene->geometry, VERTEX_BUFFER, 0);
    rtcCommitGeometry(scene->geometry);
    rtcCommitScene(scene->top);
    watch.stop(seconds);
    return rtcGetDeviceError(scene->device) == 0;
}

// `primitive`: -1 for a miss; for occlusion kinds 1 where something was hit, and `t` and `instance` are not written.
bool embree_trace(void* handle, const float* origin, const float* direction, const float* t_max, int64_t count, int kind,
                  int threads, float* t, int32_t* primitive, int32_t* instance, double* seconds) {
    Scene* scene = static_cast<Scene*>(handle);
    Rays rays{origin, direction, t_max};
    Found found{t, primitive, instance};
    bool packets = kind == CLOSEST_16 || kind == OCCLUDED_16, occlusion = kind == OCCLUDED || kind == OCCLUDED_16;
    auto* trace = packets ? trace_packets : trace_single;
    run_chunks(count, threads, seconds, [&](int64_t first, int64_t last) {
        trace(scene->top, rays, occlusion, found, first, last);
    });
    return rtcGetDeviceError(scene->device) == 0;
}

void embree_release(void* handle) { delete static_cast<Scene*>(handle); }
}
