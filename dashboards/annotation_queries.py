"""The annotations behind every curve of a run: its phases, and the active injections."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from dashboards.variables import OF_RUN, SOURCE


class PrometheusAnnotations(model.AnnotationQuery):
    """Intervals in which a Prometheus query is above 0.

    The schema leaves the data source's own fields of an annotation query open, and the toolkit does not write them.
    """

    def __init__(self, name: str, expr: str, title: str, text: str, colour: str) -> None:
        """Draw a region for each series; ``title`` and ``text`` may name its labels in double braces."""
        super().__init__(name=name, datasource=SOURCE, enable=True, icon_color=colour, expr=expr)
        self._more = {
            "step": "1s",
            "titleFormat": title,
            "textFormat": text,
            # Newer releases of the data source read the query from here.
            "target": {
                "expr": expr,
                "refId": "Anno",
                "interval": "1s",
                "limit": 100,
                "matchAny": False,
                "tags": [],
                "type": "tags",
            },
        }

    def to_json(self) -> dict[str, object]:
        """Return all of it."""
        return {**super().to_json(), **self._more}


def annotation_queries() -> list[model.AnnotationQuery]:
    """Return the annotations of one run: from Prometheus, and, switched off, those that ``stallbench run --annotate`` writes."""
    return [
        PrometheusAnnotations(
            "Phases", f"max by (name, kind) (stallbench_phase{{{OF_RUN}}})", "{{name}}", "phase {{name}}, {{kind}}", "blue"
        ),
        PrometheusAnnotations(
            "Faults",
            f"max by (name, kind, on) (stallbench_injection_active{{{OF_RUN}}})",
            "{{name}}",
            "{{kind}} on {{on}} is active",
            "red",
        ),
        model.AnnotationQuery(
            name="Written by --annotate",
            datasource=model.DataSourceRef(type_val="grafana", uid="-- Grafana --"),
            enable=False,
            icon_color="purple",
            target=model.AnnotationTarget(limit=100, match_any=False, tags=["stallbench", "$run"], type_val="tags"),
        ),
    ]
