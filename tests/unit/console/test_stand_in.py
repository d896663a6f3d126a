"""The stand-in keeps to the contract: what others test against must not drift from it."""

from __future__ import annotations

from starlette.testclient import TestClient

from tests.support.management_stand_in.app import StandIn


def test_it_answers_as_the_contract_names_things() -> None:
    group = StandIn()
    with TestClient(group.app) as client:
        assert client.get("/admin/overview?abnormal=true").json()["matching"] == 1
        assert client.get("/admin/connectors/orders").json()["config"]["db.password"] == "[hidden]"
        assert [it["kind"] for it in client.get("/admin/events?kind=failure,restart").json()["events"]] == [
            "failure",
            "restart",
        ]
        first = client.get("/admin/dead-letters?connector=orders-sink&limit=3").json()
        rest = client.get(f"/admin/dead-letters?connector=orders-sink&limit=3&after={first['next']}").json()
        assert (len(first["letters"]), len(rest["letters"]), rest["next"]) == (3, 2, None)
        assert client.put("/connectors/orders/pause").status_code == 202
        assert client.get("/connectors/orders/status").json()["connector"]["state"] == "PAUSED"
        assert client.post("/connectors", json={"name": "orders", "config": {}}).status_code == 409
        made = client.post("/admin/dead-letters/replays", json={"connector": "orders-sink"})
        assert (made.status_code, made.json()["state"]) == (201, "running")
        assert client.put("/connector-plugins/F/config/validate", json={}).json()["error_count"] == 2
    assert group.sent("POST", "/connectors") == [{"name": "orders", "config": {}}]


def test_unserved_path_of_the_fake_worker_is_404() -> None:
    group = StandIn(without={"history"})
    group.answers["GET", "/admin/group"] = 503, {"error_code": 503, "message": "no leader"}
    with TestClient(group.app) as client:
        assert client.get("/admin/history").status_code == 404
        assert client.get("/admin/nothing").status_code == 404
        assert client.get("/admin/group").status_code == 503
        assert client.post("/admin/check", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
