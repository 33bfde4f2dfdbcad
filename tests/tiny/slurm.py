"""A real Slurm of one node on this machine, started by root without systemd: munge, a controller, a node of two processors."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import gethostname, socket

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing() -> str:
    """What it lacks here; empty where it can be started."""
    lacking = [program for program in PROGRAMS if not shutil.which(program, path=path())]
    return (
        f"{', '.join(lacking)} not installed (slurm-wlm, munge)" if lacking else "" if os.geteuid() == 0 else "not root"
    )


def path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Environment of the commands that shall talk to it, while it runs."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    configuration, key = folder / "slurm.conf", folder / "key"
    with socket() as one, socket() as other:  # free ports
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in (one, other)]
    configuration.write_text(CONFIGURATION.format(host=gethostname(), folder=folder, ports=ports))
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    folder.chmod(0o755)
    settings = {"SLURM_CONF": str(configuration)}
    munge = [f"--{name}={folder / file}" for name, file in {"key-file": "key", "socket": "munge", "pid-file": "pid",
             "log-file": "munge.log", "seed-file": "seed"}.items()]  # fmt: skip
    commands = ["munged", "--force", "--foreground", *munge], ["slurmctld", "-D"], ["slurmd", "-D"]
    started = []
    try:
        for command in commands:
            with open(folder / f"{command[0]}.out", "w") as output:
                process = subprocess.Popen(
                    command, env={**os.environ, **settings, "PATH": path()}, stdout=output, stderr=output
                )
            started.append(process)
            time.sleep(0.5)
        yield settings
    finally:
        for process in reversed(started):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
