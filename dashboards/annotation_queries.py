"""What is drawn behind every curve of a run: its phases, and what was wrong in them."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from dashboards.variables import OF_RUN, SOURCE


class PrometheusAnnotations(model.AnnotationQuery):
    """Stretches in which a query of Prometheus is above 0.

    The schema leaves an annotation query open for what its data source adds; the toolkit writes none of that.
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
    """Return those of one run: by Prometheus, and, switched off, those that ``stallbench run --annotate`` writes."""
    return [
        PrometheusAnnotations(
            "Phases", f"max by (name, kind) (stallbench_phase{{{OF_RUN}}})", "{{name}}", "phase {{name}}, {{kind}}", "blue"
        ),
        PrometheusAnnotations(
            "Faults",
            f"max by (name, kind, on) (stallbench_fault_in_force{{{OF_RUN}}})",
            "{{name}}",
            "{{kind}} on {{on}} is in force",
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
