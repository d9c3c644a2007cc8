"""Inline queries: RayQuery as HLSL has it, driven from Python (section 6.10 of the rules).

Not a second traversal: each Proceed() asks the one walk again, with what the caller decided so far, and it stops at the
next candidate. The walk is deterministic, so that is going on. Cost grows with the square of the candidates, which is
what teaching and testing can afford.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import CandidateType, CommittedStatus, HitKind, RayFlag
from rtviewer.dxr.layouts import low_24
from rtviewer.dxr.profile import Tier
from rtviewer.dxr.programs import QUERY
from rtviewer.dxr.rules import check_ray_flags, check_ray_interval, require
from rtviewer.dxr.verdicts import EventKind, Verdict
from rtviewer.errors import InvalidInputError, violation
from rtviewer.scene.primitives import invert_transforms, transform_directions, transform_points
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.query_hit import QueryHit
from rtviewer.trace.request import RayBatch, TraceSettings

SECTION = "RayQuery intrinsics"


class RayQuery:
    """One query object; ``template_flags`` are or-ed into the flags of every TraceRayInline (RF-6).

    Methods carry HLSL's names in snake case. A method called in a state that does not support it raises
    InvalidInputError with INL-10.
    """

    def __init__(self, template_flags: RayFlag = RayFlag.NONE) -> None:
        self._template = template_flags
        self._dispatcher: Dispatcher | None = None
        self._candidate: QueryHit | None = None
        self._committed: QueryHit | None = None
        self._decisions: list[float] = []
        self._over = True

    def trace_ray_inline(
        self,
        dispatcher: Dispatcher,
        ray_flags: RayFlag,
        instance_inclusion_mask: int,
        origin: tuple[float, float, float],
        direction: tuple[float, float, float],
        t_min: float = 0.0,
        t_max: float = math.inf,
    ) -> None:
        """Initialise for a ray; an earlier query is discarded (INL-1).

        Raises InvalidInputError for illegal flags (RF-1 to RF-6, template and dynamic together) or ray (RAY-2, RAY-3),
        and below tier 1.1, which has no inline queries (PROF-3).
        """
        if dispatcher.profile.tier < Tier.TIER_1_1:
            text = f"inline queries need tier 1.1, found {dispatcher.profile}"
            found = violation("PROF-3", text, field="RayQuery", section="D3D12_RAYTRACING_TIER")
            raise InvalidInputError([found], "TraceRayInline")
        flags = self._template | ray_flags
        require(check_ray_flags(flags, dispatcher.profile, inline=True), "TraceRayInline")
        require(check_ray_interval(t_min, t_max), "TraceRayInline")
        if not all(math.isfinite(x) or math.isinf(x) for x in (*origin, *direction)):
            text = "origin and direction must not be NaN"
            raise InvalidInputError([violation("RAY-3", text, field="RayDesc", section="Rays")], "TraceRayInline")
        self._dispatcher = dispatcher
        self._flags = flags
        self._rays = RayBatch.make([origin], [direction], t_min, t_max)
        self._settings = TraceSettings(flags, instance_inclusion_mask, QUERY, QUERY)
        self._decisions = []
        self._decision = math.nan
        self._candidate, self._committed = None, None
        self._over = False

    def proceed(self) -> bool:
        """Go on to the next candidate that needs the caller; false once the search is over, and ever after (INL-2)."""
        dispatcher = self._traced("Proceed")
        if self._over:
            return False
        if self._candidate is not None:
            self._decisions.append(self._decision)
        self._candidate, self._decision = None, math.nan
        log = dispatcher.query(self._rays, self._settings, np.array(self._decisions, np.float32))
        waiting = log.events[log.events["verdict"] == int(Verdict.RETURNED_TO_CALLER)]
        hits = log.result.hits
        if hits.hit[0]:
            triangle = int(hits.hit_kind[0]) >= HitKind.TRIANGLE_FRONT_FACE
            u, v = (float(x) for x in hits.attributes[0])
            self._committed = QueryHit(
                triangle, float(hits.t[0]), int(hits.instance_index[0]), int(hits.geometry_index[0]),
                int(hits.primitive_index[0]), int(hits.hit_kind[0]), (u, v),
            )  # fmt: skip
        if not len(waiting):
            self._over = True
            return False
        event = waiting[-1]
        triangle = int(event["kind"]) == EventKind.CANDIDATE and int(event["hit_kind"]) >= HitKind.TRIANGLE_FRONT_FACE
        self._candidate = QueryHit(
            triangle, float(event["t"]), int(event["instance"]), int(event["geometry"]), int(event["primitive"]),
            int(event["hit_kind"]), (float(event["u"]), float(event["v"])),
        )  # fmt: skip
        return True

    def abort(self) -> None:
        """End the search; what is committed stays readable (INL-8)."""
        self._traced("Abort")
        self._over, self._candidate = True, None

    # --- the candidate ---

    def candidate_type(self) -> CandidateType:
        candidate = self._need_candidate("CandidateType")
        return CandidateType.NON_OPAQUE_TRIANGLE if candidate.is_triangle else CandidateType.PROCEDURAL_PRIMITIVE

    def candidate_triangle_ray_t(self) -> float:
        return self._need_candidate("CandidateTriangleRayT", triangle=True).t

    def candidate_triangle_barycentrics(self) -> tuple[float, float]:
        return self._need_candidate("CandidateTriangleBarycentrics", triangle=True).attributes

    def candidate_triangle_front_face(self) -> bool:
        return self._need_candidate("CandidateTriangleFrontFace", triangle=True).is_front_face

    def candidate_procedural_primitive_non_opaque(self) -> bool:
        """Whether any-hit would have run; opacity decides nothing else here (OPQ-7)."""
        candidate = self._need_candidate("CandidateProceduralPrimitiveNonOpaque", triangle=False)
        return not candidate.is_opaque(self._structures(), self._flags)

    def candidate_instance_index(self) -> int:
        return self._need_candidate("CandidateInstanceIndex").instance

    def candidate_instance_id(self) -> int:
        return self._instance_id(self._need_candidate("CandidateInstanceID"))

    def candidate_instance_contribution_to_hit_group_index(self) -> int:
        return self._contribution(self._need_candidate("CandidateInstanceContributionToHitGroupIndex"))

    def candidate_geometry_index(self) -> int:
        return self._need_candidate("CandidateGeometryIndex").geometry

    def candidate_primitive_index(self) -> int:
        return self._need_candidate("CandidatePrimitiveIndex").primitive

    def candidate_object_ray_origin(self) -> tuple[float, float, float]:
        return self._object_ray(self._need_candidate("CandidateObjectRayOrigin"))[0]

    def candidate_object_ray_direction(self) -> tuple[float, float, float]:
        return self._object_ray(self._need_candidate("CandidateObjectRayDirection"))[1]

    def candidate_object_to_world_3x4(self) -> NDArray[np.float32]:
        return self._matrices(self._need_candidate("CandidateObjectToWorld3x4"))[0]

    def candidate_object_to_world_4x3(self) -> NDArray[np.float32]:
        return self._matrices(self._need_candidate("CandidateObjectToWorld4x3"))[0].T

    def candidate_world_to_object_3x4(self) -> NDArray[np.float32]:
        return self._matrices(self._need_candidate("CandidateWorldToObject3x4"))[1]

    def candidate_world_to_object_4x3(self) -> NDArray[np.float32]:
        return self._matrices(self._need_candidate("CandidateWorldToObject4x3"))[1].T

    def commit_non_opaque_triangle_hit(self) -> None:
        """Accept the candidate triangle; again for the same candidate does nothing more (INL-4)."""
        candidate = self._need_candidate("CommitNonOpaqueTriangleHit", triangle=True)
        self._decision = candidate.t
        self._committed = candidate

    def commit_procedural_primitive_hit(self, t: float) -> None:
        """Commit a hit of the candidate box at ``t``; may be called again with a t not beyond the last (INL-5).

        Raises InvalidInputError (INL-6) for a t outside [TMin, CommittedRayT] or NaN.
        """
        candidate = self._need_candidate("CommitProceduralPrimitiveHit", triangle=False)
        t = float(np.float32(t))
        if not self.ray_t_min() <= t <= self.committed_ray_t():
            text = f"t must be in [{self.ray_t_min()}, {self.committed_ray_t()}]"
            raise InvalidInputError(
                [violation("INL-6", text, field="t", value=t, section="RayQuery CommitProceduralPrimitiveHit")],
                "CommitProceduralPrimitiveHit",
            )
        self._decision = t
        self._committed = replace(candidate, t=t)

    # --- what is committed ---

    def committed_status(self) -> CommittedStatus:
        """At any time after TraceRayInline (INL-9)."""
        self._traced("CommittedStatus")
        if self._committed is None:
            return CommittedStatus.NOTHING
        return CommittedStatus.TRIANGLE_HIT if self._committed.is_triangle else CommittedStatus.PROCEDURAL_PRIMITIVE_HIT

    def committed_ray_t(self) -> float:
        """TMax until something is committed (INL-1)."""
        self._traced("CommittedRayT")
        return self._committed.t if self._committed is not None else float(self._rays.t_max[0])

    def committed_triangle_barycentrics(self) -> tuple[float, float]:
        return self._need_committed("CommittedTriangleBarycentrics", triangle=True).attributes

    def committed_triangle_front_face(self) -> bool:
        return self._need_committed("CommittedTriangleFrontFace", triangle=True).is_front_face

    def committed_instance_index(self) -> int:
        return self._need_committed("CommittedInstanceIndex").instance

    def committed_instance_id(self) -> int:
        return self._instance_id(self._need_committed("CommittedInstanceID"))

    def committed_instance_contribution_to_hit_group_index(self) -> int:
        return self._contribution(self._need_committed("CommittedInstanceContributionToHitGroupIndex"))

    def committed_geometry_index(self) -> int:
        return self._need_committed("CommittedGeometryIndex").geometry

    def committed_primitive_index(self) -> int:
        return self._need_committed("CommittedPrimitiveIndex").primitive

    def committed_object_ray_origin(self) -> tuple[float, float, float]:
        return self._object_ray(self._need_committed("CommittedObjectRayOrigin"))[0]

    def committed_object_ray_direction(self) -> tuple[float, float, float]:
        return self._object_ray(self._need_committed("CommittedObjectRayDirection"))[1]

    def committed_object_to_world_3x4(self) -> NDArray[np.float32]:
        return self._matrices(self._need_committed("CommittedObjectToWorld3x4"))[0]

    def committed_object_to_world_4x3(self) -> NDArray[np.float32]:
        return self._matrices(self._need_committed("CommittedObjectToWorld4x3"))[0].T

    def committed_world_to_object_3x4(self) -> NDArray[np.float32]:
        return self._matrices(self._need_committed("CommittedWorldToObject3x4"))[1]

    def committed_world_to_object_4x3(self) -> NDArray[np.float32]:
        return self._matrices(self._need_committed("CommittedWorldToObject4x3"))[1].T

    # --- the ray ---

    def ray_flags(self) -> RayFlag:
        """Template or-ed with dynamic flags (RF-7)."""
        self._traced("RayFlags")
        return self._flags

    def ray_t_min(self) -> float:
        self._traced("RayTMin")
        return float(self._rays.t_min[0])

    def world_ray_origin(self) -> tuple[float, float, float]:
        self._traced("WorldRayOrigin")
        return _vector(self._rays.origin[0])

    def world_ray_direction(self) -> tuple[float, float, float]:
        self._traced("WorldRayDirection")
        return _vector(self._rays.direction[0])

    # --- states ---

    def _traced(self, method: str) -> Dispatcher:
        if self._dispatcher is None:
            raise _unsupported(method, "before TraceRayInline")
        return self._dispatcher

    def _need_candidate(self, method: str, triangle: bool | None = None) -> QueryHit:
        self._traced(method)
        if self._candidate is None:
            raise _unsupported(method, "without a candidate: Proceed() has not returned true")
        if triangle is not None and self._candidate.is_triangle != triangle:
            raise _unsupported(method, f"for a {'procedural' if triangle else 'triangle'} candidate")
        return self._candidate

    def _need_committed(self, method: str, triangle: bool | None = None) -> QueryHit:
        self._traced(method)
        if self._committed is None:
            raise _unsupported(method, "with COMMITTED_NOTHING")
        if triangle is not None and self._committed.is_triangle != triangle:
            raise _unsupported(method, "for a procedural hit")
        return self._committed

    # --- values of an instance ---

    def _structures(self) -> tuple[Structure, dict[int, Structure]]:
        dispatcher = self._traced("RayQuery")
        return dispatcher.tlas, dispatcher.blases

    def _instance_id(self, hit: QueryHit) -> int:
        return int(low_24(self._structures()[0].instance_descs["InstanceIDAndMask"])[hit.instance])

    def _contribution(self, hit: QueryHit) -> int:
        return int(low_24(self._structures()[0].instance_descs["InstanceContributionAndFlags"])[hit.instance])

    def _matrices(self, hit: QueryHit) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Object to world and its inverse, (3, 4) float32 each (INST-10)."""
        transform = self._structures()[0].instance_descs["Transform"][hit.instance].astype(np.float32)
        return transform, invert_transforms(transform[None])[0][0]

    def _object_ray(self, hit: QueryHit) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """INST-8."""
        matrix = self._matrices(hit)[1]
        origin = transform_points(matrix, self._rays.origin)[0]
        return _vector(origin), _vector(transform_directions(matrix, self._rays.direction)[0])


def _unsupported(method: str, why: str) -> InvalidInputError:
    text = f"{method} is not supported {why}"
    return InvalidInputError([violation("INL-10", text, field=method, section=SECTION)], method)


def _vector(values: NDArray[np.float32]) -> tuple[float, float, float]:
    x, y, z = (float(v) for v in values)
    return x, y, z
