"""Facts about a training and its model, as lines for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from musvm.cli._terminal import counted

MOST_CLASSES = 12


def in_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """What `musvm fit` has noted, for people to read."""
    training, columns, search = facts["training"], facts["input"], facts["search"]
    n_categorical = len(columns["categorical"])
    lines = {
        "training": f"{training['file']}: {training['rows']} rows, {len(training['classes'])} "
        f"classes, {columns['n']} columns"
        + (f", {n_categorical} of them categorical" if n_categorical else ""),
        "classes": _classes_in_words(training["classes"]),
    }
    if facts["universum"]:
        lines["universum"] = ", ".join(f"{u['file']}: {u['rows']} rows" for u in facts["universum"])
    lines["chosen by"] = f"the {search['ranked_by']}, {counted(search['cells'], 'setting')}"
    lines["parameters"] = _parameters_in_words(facts["parameters"], bool(facts["universum"]))
    lines |= _comparison_in_words(facts["comparison"])
    if nested := facts["nested"]:
        lines["nested"] = (
            f"{nested['error']:.2%} +- {100 * nested['standard_error']:.2f} points, the search "
            f"as a whole by {nested['folds']}-fold cross-validation"
        )
    lines["support"] = f"{sum(facts['support_vectors'])} of {training['rows']} training rows" + (
        f", {facts['universum_support_vectors']} of {sum(u['rows'] for u in facts['universum'])} "
        "universum rows"
        if facts["universum"]
        else ""
    )
    lines["certificate"] = f"relative duality gap {facts['relative_gap']:.1e}"
    if facts["rejection"]:
        lines["rejection"] = (
            f"--reject lets {facts['rejection']['accepted']:.0%} of the class members pass"
        )
    return lines


def _classes_in_words(counts: Mapping[str, int]) -> str:
    """The classes with their numbers of rows, the first of many."""
    first = [f"{name} ({counts[name]})" for name in list(counts)[:MOST_CLASSES]]
    more = [f"{len(counts) - MOST_CLASSES} more"] if len(counts) > MOST_CLASSES else []
    return ", ".join(first + more)


def _parameters_in_words(parameters: dict[str, Any], has_universum: bool) -> str:
    words = [f"kernel {parameters['kernel']}", f"C = {parameters['C']:g}"]
    if parameters["kernel"] != "linear":
        gamma, value = parameters["gamma"], parameters["gamma_value"]
        words.append(
            f"gamma = {gamma} ({value:.3g})" if isinstance(gamma, str) else f"gamma = {value:g}"
        )
    if parameters["universum_weight"] == 0:
        return ", ".join(words) + (", universum not used" if has_universum else "")
    weight = parameters["universum_weight"]
    if has_universum:
        words.append(f"delta = {parameters['delta']:g}")
        words.append(f"C*/C {weight}" if isinstance(weight, str) else f"C*/C = {weight:g}")
    return ", ".join(words)


def _comparison_in_words(comparison: dict[str, Any]) -> dict[str, str]:
    plain, universum = comparison["plain"], comparison["universum"]
    if universum is None:
        return {"error": f"{plain['error']:.2%}, the {comparison['criterion']}"}
    return {
        "error": f"{plain['error']:.2%} without universum, {universum['error']:.2%} with it, the "
        f"{comparison['criterion']}",
        **{name: comparison[name] for name in ("change", "decision") if name in comparison},
    }


def model_in_words(summary: Mapping[str, Any]) -> dict[str, str]:
    """What any model file notes of its classifier."""
    lines = {}
    if calibration := summary.get("calibration"):
        models = counted(calibration["models"], "model")
        lines["calibration"] = f"{calibration['method']}, of {models}"
    parameters = summary.get("parameters", {})
    if parameters:
        given = {name: value for name, value in parameters.items() if value is not None}
        lines["parameters"] = ", ".join(f"{name} = {_short(given[name])}" for name in given)
    if "support_vectors" in summary:
        universum = summary["universum_support_vectors"]
        lines["support"] = counted(sum(summary["support_vectors"]), "training row") + (
            f", {counted(universum, 'universum row')}" if universum else ""
        )
        lines["certificate"] = (
            f"objective {summary['objective']:.6g}, relative duality gap "
            f"{summary['relative_gap']:.1e}" + ("" if summary["converged"] else ", NOT converged")
        )
    return lines


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
