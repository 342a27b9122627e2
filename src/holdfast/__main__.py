"""`python -m holdfast` is the command `holdfast`."""


def main() -> None:
    """Run the command. Ctrl-C while its modules are imported is told as it is later on: one line and exit code 130."""
    try:
        from holdfast.cli import main as run

        run()
    except KeyboardInterrupt:
        import sys

        print("holdfast: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
