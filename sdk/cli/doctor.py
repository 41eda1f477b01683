"""``sdk doctor``: what works on this machine, and the command that mends what does not."""

from __future__ import annotations

import click

from sdk.cli import options, output
from sdk.errors import MissingToolError


@click.command()
@options.json_option
def doctor(as_json: bool) -> int:
    """Check what this machine has; exit code 10 when something needed is missing."""
    from sdk import driver

    report = driver.doctor()
    code = 0 if report.passed else MissingToolError.exit_code
    if as_json:
        output.print_json(report.to_json())
        return code
    # plain lines: the packages that print tables may be what is missing
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        output.say(f"{check.status:8} {check.name:{width}}  {check.detail}")
        if check.status != "ok":
            output.say(f"{'':8} {'':{width}}  for {check.purpose}")
            if check.fix:
                output.say(f"{'':8} {'':{width}}  $ {check.fix}")
    absent = sum(check.status == "absent" for check in report.checks)
    optional = f"; {absent} optional absent" if absent else ""
    output.say(f"{'all that is needed is here' if report.passed else 'something needed is missing'}{optional}")
    return code
