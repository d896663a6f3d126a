"""``connectrt config ...``: which clusters there are."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import local
from spark_connect_rt.cli.options import Form, context_names
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.", autocompletion=context_names)]
Urls = Annotated[list[str] | None, typer.Option("--url", help="A worker's address; repeatable, tried in turn.")]
AdminUrls = Annotated[
    list[str] | None,
    typer.Option("--admin-url", help="Address of /admin, if it is different (admin.listeners); repeatable."),
]
Username = Annotated[str | None, typer.Option("--username", help="User name for basic authentication.")]
Password = Annotated[str | None, typer.Option("--password", help="Password, stored in the file; - prompts for it.")]
PasswordFile = Annotated[str | None, typer.Option("--password-file", help="File with the password, read at each use.")]
Token = Annotated[str | None, typer.Option("--token", help="Bearer token, stored in the file; - prompts for it.")]
TokenFile = Annotated[str | None, typer.Option("--token-file", help="File with the token, read at each use.")]
Ca = Annotated[str | None, typer.Option("--ca", help="CA certificate of the workers, PEM.")]
Cert = Annotated[str | None, typer.Option("--cert", help="Client certificate, PEM.")]
Key = Annotated[str | None, typer.Option("--key", help="Key of the client certificate, if it is in a separate file.")]
KeyPassword = Annotated[str | None, typer.Option("--key-password", help="Password of the key; - prompts for it.")]
Insecure = Annotated[bool | None, typer.Option("--insecure/--secure", help="Do not verify certificates.")]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")]


def add_context_words(cli: typer.Typer) -> None:
    """Add the commands for contexts."""
    config = typer.Typer(help="Contexts: addresses and credentials of clusters.", no_args_is_help=True)
    cli.add_typer(config, name="config", rich_help_panel="See and change a cluster, over REST")

    @config.command("get-contexts")
    @local
    def get_contexts(session: Session, output: Form = Output.TABLE) -> int:
        """List the contexts; a star marks the current one."""
        from spark_connect_rt.cli import context_actions

        return context_actions.listed(session, output)

    @config.command("current-context")
    @local
    def current_context(session: Session) -> int:
        """Print the name of the current context."""
        from spark_connect_rt.cli import context_actions

        return context_actions.current(session)

    @config.command("use-context")
    @local
    def use_context(session: Session, name: Name) -> int:
        """Make a context the current one."""
        from spark_connect_rt.cli import context_actions

        return context_actions.use(session, name)

    @config.command("delete-context")
    @local
    def delete_context(session: Session, name: Name) -> int:
        """Remove a context from the file."""
        from spark_connect_rt.cli import context_actions

        return context_actions.removed(session, name)

    @config.command("set-context")
    @local
    def set_context(
        session: Session,
        name: Name,
        urls: Urls = None,
        admin_urls: AdminUrls = None,
        username: Username = None,
        password: Password = None,
        password_file: PasswordFile = None,
        token: Token = None,
        token_file: TokenFile = None,
        ca: Ca = None,
        cert: Cert = None,
        key: Key = None,
        key_password: KeyPassword = None,
        insecure: Insecure = None,
        timeout: Timeout = None,
    ) -> int:
        """Add a context, or change one. The first context becomes the current one."""
        from spark_connect_rt.cli import context_actions

        given = {
            "urls": _split(urls),
            "admin_urls": _split(admin_urls),
            "username": username,
            "password": password,
            "password_file": password_file,
            "token": token,
            "token_file": token_file,
            "ca": ca,
            "cert": cert,
            "key": key,
            "key_password": key_password,
            "insecure": insecure,
            "timeout_s": timeout,
        }
        return context_actions.changed(session, name, given)


def _split(urls: list[str] | None) -> tuple[str, ...] | None:
    return tuple(part for url in urls for part in url.split(",")) if urls else None
