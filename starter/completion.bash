# Completion of starter for bash: source <(starter completion bash)
_starter() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]/#--/-} word command= words=
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case " @COMMANDS@ " in *" $word "*) command=$word; break ;; esac
  done
  case $before in
    -on-error) COMPREPLY=($(compgen -W '@ONERROR@' -- "$current")); return ;;
    -output)
      words='@OUTPUTS@'
      case $command in
@OWN@      esac
      COMPREPLY=($(compgen -W "$words" -- "$current")); return ;;
    @FILES@) COMPREPLY=($(compgen -f -- "$current")); return ;;
    @VALUES@) COMPREPLY=(); return ;;
  esac
  case $command in
    '') words='@START@'; [[ $COMP_CWORD = 1 ]] && words='@FIRST@' ;;
@CASES@  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $current != -* && ' @FILEARGS@ ' = *" $command "* && -n $command ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _starter starter
