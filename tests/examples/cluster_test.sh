#!/usr/bin/env bash
# The scripts in examples/cluster: what they refuse, what torchrun gets to hear, and, of slurm.sbatch, a whole job: real servers and
# real clients, as tasks of a made-up srun that starts them on this machine.
#
# Usage: cluster_test.sh BIN      the folder of the built programs
set -uo pipefail
source "${BASH_SOURCE[0]%/*}/../structure/script_checks.sh"
bin=$(cd "$1" && pwd)
cluster=$source_root/examples/cluster

# What a made-up srun has started and a script has not ended, ends here.
end_tasks() { cat "$sandbox"/step-* 2>/dev/null | xargs -r kill 2>/dev/null; }
trap 'end_tasks; rm -rf "$sandbox"' EXIT

new_case() {
  end_tasks
  rm -rf "${sandbox:?}"/*
  mkdir -p "$sandbox/bin"
  local tool
  for tool in bash sed head tail paste openssl mkdir sleep cat sort dirname basename env; do
    ln -s "$(command -v $tool)" "$sandbox/bin/$tool"
  done
}
# run NAME ARGUMENT...: leaves $status, $out, $err.
run() {
  PATH=$sandbox/bin "$cluster/$1" "${@:2}" >"$sandbox/out" 2>"$sandbox/err" </dev/null
  status=$?
  out=$(<"$sandbox/out")
  err=$(<"$sandbox/err")
}

# --- torchrun.sh ------------------------------------------------------------------------------------------------------
case_of "torchrun.sh: what torchrun is told"
stub "$sandbox/bin/torchrun" 'echo "$OMP_NUM_THREADS $*"'
stub "$sandbox/bin/trainer" ''
run torchrun.sh --head node0 --machines 2 --trainers 4 trainer --data 'a b' --head x
succeeds
says "1 --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=node0:29400 --rdzv-id=hopfeed --max-restarts=3 --no-python trainer --data a b --head x"
run torchrun.sh --head node0:1234 --machines 3 --max-restarts 0 --id mine trainer
succeeds; says "--nnodes=3 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=node0:1234 --rdzv-id=mine --max-restarts=0"
run torchrun.sh --help
succeeds; says "Usage: examples/cluster/torchrun.sh"
run torchrun.sh --machines 2 trainer; refuses_with "--head is required"
run torchrun.sh --head node0 trainer; refuses_with "--machines is required"
run torchrun.sh --head node0 --machines 0 trainer; refuses_with "--machines is '0'; give a whole number from 1 on"
run torchrun.sh --head node0 --machines 2 --trainers two trainer; refuses_with "--trainers is 'two'"
run torchrun.sh --head node0 --machine 2 trainer; refuses_with "unknown option '--machine'"
run torchrun.sh --head; refuses_with "--head needs a value"
run torchrun.sh --head node0 --machines 2; refuses_with "name the training program"
run torchrun.sh --head node0 --machines 2 none; refuses_with "there is no program 'none' here"
rm "$sandbox/bin/torchrun"
run torchrun.sh --head node0 --machines 2 trainer; refuses_with "there is no torchrun in PATH"

# --- slurm.sbatch -----------------------------------------------------------------------------------------------------
# An srun that runs all tasks here; scancel ends those of a step.
made_up_slurm() {
  for tool in hopfeed-server hopfeed-sample; do ln -s "$bin/$tool" "$sandbox/bin/$tool"; done
  stub "$sandbox/bin/scontrol" 'echo "${3//,/$'"'\\n'"'}"'
  stub "$sandbox/bin/scancel" "while read -r pid; do kill -TERM \"\$pid\"; done <'$sandbox/step-'\"\${2##*.}\""
  stub "$sandbox/bin/srun" "
while [[ \$1 == --* ]]; do
  case \$1 in --ntasks=*) ntasks=\${1#*=} ;; --output=*) output=\${1#*=} ;; --error=*) error=\${1#*=} ;; esac
  shift
done
step=0; while [[ -e '$sandbox/step-'\$step ]]; do step=\$((step + 1)); done; : >'$sandbox/step-'\$step
for ((task = 0; task < ntasks; ++task)); do
  [[ -z \${output:-} ]] || exec >\"\${output//%t/\$task}\"
  [[ -z \${error:-} ]] || exec 2>\"\${error//%t/\$task}\"
  SLURMD_NODENAME=localhost SLURM_PROCID=\$task SLURM_LOCALID=\$task SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=\$ntasks \\
    SLURM_STEP_TASKS_PER_NODE=\$ntasks SLURM_STEP_NODELIST=localhost \"\$@\" &
  echo \$! >>'$sandbox/step-'\$step
done
status=0
while read -r pid; do wait \"\$pid\" || status=\$?; done <'$sandbox/step-'\$step
exit \$status"
  export SLURM_JOB_ID=7 SLURM_JOB_NODELIST=localhost SLURM_CPUS_PER_TASK=1
}
dataset() {
  "$bin/hopfeed-partition" generate "$sandbox/data" --nodes 2000 --edges 10000 --features 8 --classes 3 --seed 1 >/dev/null 2>&1
}

case_of "slurm.sbatch: what it refuses"
made_up_slurm
unset SLURM_NTASKS
run slurm.sbatch --data d --work w -- x; refuses_with "start it with sbatch"
export SLURM_NTASKS=4
run slurm.sbatch --work w -- x; refuses_with "--data is required"
run slurm.sbatch --data d -- x; refuses_with "--work is required"
run slurm.sbatch --data d --work w --servers 4 -- x; refuses_with "--servers is 4, and the job has 4 tasks"
run slurm.sbatch --data d --work w --servers -1 -- x; refuses_with "--servers is '-1'"
run slurm.sbatch --data d --work w --; refuses_with "name the training program"
run slurm.sbatch --data d --work w x; refuses_with "unknown option 'x'"
run slurm.sbatch --help; succeeds; says "Usage: sbatch"
run slurm.sbatch --data "$sandbox/none" --work "$sandbox/work" -- x
refuses_with "the servers ended: hopfeed-server: --data: no dataset folder $sandbox/none"

case_of "slurm.sbatch: two servers and two trainers, whose batches are those of worker mode; the servers drain"
made_up_slurm
dataset
export SLURM_NTASKS=4
stub "$sandbox/bin/trainer" "exec hopfeed-sample --batch-size 100 --epochs 2 \"\$@\" >'$sandbox/rank-'\$RANK"
run slurm.sbatch --servers 2 --data "$sandbox/data" --work "$sandbox/work" -- trainer
succeeds
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1 "$bin/hopfeed-sample" "$sandbox/data" --batch-size 100 --epochs 2 \
    >"$sandbox/expected" 2>/dev/null
  [[ -s $sandbox/expected ]] && cmp -s "$sandbox/expected" "$sandbox/rank-$rank" || fail "rank $rank should get worker mode's batches"
  grep -q 'event=drained' "$sandbox/work/job-7-0/server-$rank.log" || fail "server $rank should drain"
done
[[ $(stat -c %a "$sandbox/work/job-7-0/token" "$sandbox/work/job-7-0/tls.key") == 600$'\n'600 ]] || fail "secrets are the owner's alone"

case_of "slurm.sbatch: the trainers' exit code is the job's"
made_up_slurm
dataset
stub "$sandbox/bin/trainer" 'exit 7'
run slurm.sbatch --servers 1 --data "$sandbox/data" --work "$sandbox/work" -- trainer
((status == 7)) || fail "should end with 7"

case_of "slurm.sbatch: worker mode, and what trainers find in their environment"
made_up_slurm
stub "$sandbox/bin/trainer" 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $*"'
run slurm.sbatch --servers 0 --data d --work "$sandbox/work" -- trainer --x
succeeds; says "0 4 0 4 localhost 20007 --x --data d"; says "3 4 3 4 localhost 20007 --x --data d"

case_of "slurm.sbatch: tasks of a node"
eval "$(sed -n '/^tasks_here() {/,/^}/p' "$cluster/slurm.sbatch")"
for expected in "4(x2),3|0|4" "4(x2),3|1|4" "4(x2),3|2|3" "1|0|1" "2,1(x3)|3|1"; do
  IFS='|' read -r list node count <<<"$expected"
  [[ $(SLURM_STEP_TASKS_PER_NODE=$list SLURM_NODEID=$node tasks_here) == "$count" ]] || fail "node $node of $list has $count"
done

all_hold cluster
